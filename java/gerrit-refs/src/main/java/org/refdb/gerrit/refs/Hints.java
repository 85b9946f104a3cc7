package org.refdb.gerrit.refs;

import com.google.common.cache.AbstractCache;
import com.google.common.cache.CacheStats;
import com.google.common.cache.RemovalCause;
import com.google.common.cache.RemovalNotification;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.server.cache.CacheRemovalListener;
import com.google.gerrit.server.plugincontext.PluginSetContext;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import java.util.function.Consumer;
import org.eclipse.jgit.events.ListenerHandle;
import org.eclipse.jgit.events.RefsChangedEvent;
import org.eclipse.jgit.lib.Repository;
import org.refdb.jgit.RefsNoticedEvent;

/**
 * Tells other nodes of a cluster that the refs of a project changed. The plugins high-availability and multi-site
 * forward removals from the caches that their {@code cache.pattern} names, and their peers remove the same key. So this
 * is a cache, {@value #CACHE}, that never contains anything: a node that wrote refs reports the removal of a key, and
 * an invalidation here is a hint from a peer.
 *
 * <p>A cache with entries would not work: the plugins mark the thread so that a forwarded removal is not forwarded
 * again, but Gerrit reports removals on another thread, so that two nodes would tell each other for ever.
 *
 * <p>A hint only makes a node check the disk before it relies on its memory. Hints may be lost, duplicated or late
 * without harm, because what the trust settings demand is checked anyway.
 */
@Singleton
public final class Hints extends AbstractCache<String, Boolean> implements LifecycleListener {
  /** The cache's name. */
  public static final String CACHE = "refdb_hints";

  /** Prefix of every key; a node with another version ignores the hint. */
  private static final String VERSION = "1:";

  /** The name that stands for Gerrit itself where listeners expect that of a plugin. */
  private static final String GERRIT = "gerrit";

  private final Consumer<RemovalNotification<String, Boolean>> peers;
  private final RefdbAdmin admin;
  private ListenerHandle refsChanged;

  @Inject
  @SuppressWarnings("rawtypes") // the set of listeners in Gerrit is untyped
  Hints(PluginSetContext<CacheRemovalListener> listeners, RefdbAdmin admin) {
    this(removal -> tell(listeners, removal), admin);
  }

  Hints(Consumer<RemovalNotification<String, Boolean>> peers, RefdbAdmin admin) {
    this.peers = peers;
    this.admin = admin;
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // the set of listeners in Gerrit is untyped
  private static void tell(
      PluginSetContext<CacheRemovalListener> listeners, RemovalNotification<String, Boolean> removal) {
    listeners.runEach(listener -> listener.onRemoval(GERRIT, CACHE, removal));
  }

  @Override
  public void start() {
    refsChanged = Repository.getGlobalListenerList().addRefsChangedListener(this::tellPeers);
  }

  @Override
  public void stop() {
    refsChanged.remove();
  }

  private void tellPeers(RefsChangedEvent event) {
    // A change noticed on the disk was reported by its writer. If each node that notices it reported it again, this
    // would never end.
    if (event.getRepository() instanceof RefdbRepository repository && !(event instanceof RefsNoticedEvent)) {
      peers.accept(RemovalNotification.create(key(repository.state().name), true, RemovalCause.EXPLICIT));
    }
  }

  /** Handles the hint of a peer that refs have changed. */
  @Override
  public void invalidate(Object key) {
    if (key instanceof String text && text.startsWith(VERSION)) {
      admin.refresh(Project.nameKey(text.substring(VERSION.length())));
    }
  }

  /** Makes the engine check the disk for every project; called when an administrator flushes the cache. */
  @Override
  public void invalidateAll() {
    admin.refreshAll();
  }

  @Override
  public Boolean getIfPresent(Object key) {
    return null;
  }

  @Override
  public void put(String key, Boolean value) {}

  @Override
  public long size() {
    return 0;
  }

  @Override
  public CacheStats stats() {
    return new CacheStats(0, 0, 0, 0, 0, 0);
  }

  static String key(Project.NameKey project) {
    return VERSION + ProjectName.of(project);
  }
}
