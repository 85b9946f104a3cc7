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
 * News between the nodes of a cluster: "the refs of this project changed". The plugins high-availability and multi-site
 * forward the removals from the caches that their {@code cache.pattern} names. The peers then remove the same key. So this
 * is a cache, {@value #CACHE}, that never holds anything. A node that wrote refs says that a key was removed, and a removal
 * here is a peer's news.
 *
 * <p>A cache with entries would not do. By a mark on the thread the plugins keep a removal that they were told of from
 * being forwarded again. But Gerrit tells of removals on another thread, so two nodes would tell each other for ever.
 *
 * <p>It is a hint and no more. It makes a node look at the disk once more before it trusts its memory. With every hint
 * lost, doubled or late nothing is wrong, since what the trust settings demand is checked anyway.
 */
@Singleton
public final class Hints extends AbstractCache<String, Boolean> implements LifecycleListener {
  /** The cache's name. */
  public static final String CACHE = "refdb_hints";

  /** Starts every key. A node with another version does not understand it, and ignores it. */
  private static final String VERSION = "1:";

  /** What Gerrit calls itself where plugins have their name. */
  private static final String GERRIT = "gerrit";

  private final Consumer<RemovalNotification<String, Boolean>> peers;
  private final RefdbAdmin admin;
  private ListenerHandle refsChanged;

  @Inject
  @SuppressWarnings("rawtypes") // Gerrit's set of listeners says nothing of their types
  Hints(PluginSetContext<CacheRemovalListener> listeners, RefdbAdmin admin) {
    this(removal -> tell(listeners, removal), admin);
  }

  Hints(Consumer<RemovalNotification<String, Boolean>> peers, RefdbAdmin admin) {
    this.peers = peers;
    this.admin = admin;
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // as above
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
    // A change noticed on the disk is told by its writer. If each node that hears of it told it again, there would be
    // no end.
    if (event.getRepository() instanceof RefdbRepository repository && !(event instanceof RefsNoticedEvent)) {
      peers.accept(RemovalNotification.create(key(repository.state().name), true, RemovalCause.EXPLICIT));
    }
  }

  /** A peer says that refs have changed. */
  @Override
  public void invalidate(Object key) {
    if (key instanceof String text && text.startsWith(VERSION)) {
      admin.refresh(Project.nameKey(text.substring(VERSION.length())));
    }
  }

  /** An administrator flushes the cache: no project's refs are trusted without a look. */
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
