package org.refdb.gerrit;

import com.google.common.cache.Cache;
import com.google.common.cache.RemovalCause;
import com.google.common.cache.RemovalNotification;
import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.server.cache.CacheRemovalListener;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import com.google.inject.name.Named;
import org.eclipse.jgit.events.ListenerHandle;
import org.eclipse.jgit.events.RefsChangedEvent;
import org.eclipse.jgit.lib.Repository;
import org.refdb.jgit.RefsNoticedEvent;

/**
 * News between the nodes of a cluster: "the refs of this project changed". It is a cache with one small entry a project;
 * a node that wrote refs invalidates the entry, and high-availability and multi-site forward that to their peers when
 * their {@code cache.pattern} names {@value #CACHE}.
 *
 * <p>It is a hint and no more: it makes a node look at the disk once more before it trusts what it has. With every hint
 * lost, doubled or late nothing is wrong, since what the trust settings demand is checked anyway.
 */
@Singleton
public final class Hints implements CacheRemovalListener<String, Hints.Armed>, LifecycleListener {
  /** The cache's name. */
  public static final String CACHE = "refdb_hints";

  /** Starts every key. A node with another version does not understand it, and ignores it. */
  private static final String VERSION = "1:";

  /** An entry that waits to be invalidated. */
  static final class Armed {
    /** This node invalidates it itself: it knows already. */
    private volatile boolean own;
  }

  private final Cache<String, Armed> cache;
  private final RefdbRepositoryManager manager;
  private final RefdbAdmin admin;
  private ListenerHandle refsChanged;

  @Inject
  Hints(@Named(CACHE) Cache<String, Armed> cache, RefdbRepositoryManager manager, RefdbAdmin admin) {
    this.cache = cache;
    this.manager = manager;
    this.admin = admin;
  }

  @Override
  public void start() {
    manager.onFirstOpened(project -> cache.put(key(project), new Armed()));
    refsChanged = Repository.getGlobalListenerList().addRefsChangedListener(this::tellPeers);
  }

  @Override
  public void stop() {
    manager.onFirstOpened(project -> {});
    refsChanged.remove();
  }

  private void tellPeers(RefsChangedEvent event) {
    // What was noticed on the disk its writer tells: if each who hears of it told it again, there would be no end.
    if (event.getRepository() instanceof RefdbRepository repository && !(event instanceof RefsNoticedEvent)) {
      String key = key(repository.state().name);
      Armed armed = cache.getIfPresent(key);
      if (armed == null) {
        armed = new Armed();
        cache.put(key, armed); // what is not there cannot be invalidated
      }
      armed.own = true;
      cache.invalidate(key);
      cache.put(key, new Armed());
    }
  }

  @Override
  public void onRemoval(String plugin, String cacheName, RemovalNotification<String, Armed> removal) {
    if (!cacheName.equals(CACHE) || removal.getCause() == RemovalCause.REPLACED) {
      return;
    }
    String key = removal.getKey();
    Armed armed = removal.getValue();
    if (key == null || !key.startsWith(VERSION) || (armed != null && armed.own)) {
      return;
    }
    Project.NameKey project = Project.nameKey(key.substring(VERSION.length()));
    admin.refresh(project);
    if (!removal.wasEvicted()) {
      cache.put(key, new Armed());
    }
  }

  static String key(Project.NameKey project) {
    return VERSION + project.get();
  }
}
