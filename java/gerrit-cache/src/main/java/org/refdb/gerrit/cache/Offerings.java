package org.refdb.gerrit.cache;

import java.util.List;
import java.util.function.Supplier;
import org.refdb.gerrit.cache.shared.Peers;
import org.refdb.gerrit.cache.shared.SharedCaches;

/**
 * Offers the values of this server when another server asks for them: for one request at a time, and only while that
 * server renews the request.
 */
final class Offerings implements SharedCaches.Servant {
  private final SharedCaches shared;
  private final Supplier<List<? extends WarmSource<?, ?>>> sources;
  private Offering last;

  Offerings(SharedCaches shared, Supplier<List<? extends WarmSource<?, ?>>> sources) {
    this.shared = shared;
    this.sources = sources;
  }

  @Override
  public synchronized void asked(Peers.Request request) {
    if (last != null && (request == null || !request.id().equals(last.request().id()))) {
      last.stop();
      last = null;
    }
    if (request != null && last == null) {
      last = new Offering(shared, sources.get(), request);
      last.start();
    }
  }

  /** Stops the offering that runs, if there is one. */
  synchronized void stop() {
    if (last != null) {
      last.stop();
    }
  }
}
