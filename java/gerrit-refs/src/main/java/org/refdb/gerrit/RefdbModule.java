package org.refdb.gerrit;

import com.google.gerrit.extensions.registration.DynamicSet;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.cache.CacheModule;
import com.google.gerrit.server.cache.CacheRemovalListener;

/**
 * What goes on beside the repositories: {@code gerrit.installModule = org.refdb.gerrit.RefdbModule}, together with
 * {@link RefdbDbModule} or {@link RefdbNamedDbModule}.
 */
public final class RefdbModule extends LifecycleModule {
  /** Projects whose hints are kept. One beyond that is told about a change only when it looks itself. */
  private static final long PROJECTS_MAX = 1_000_000;

  @Override
  protected void configure() {
    install(
        new CacheModule() {
          @Override
          protected void configure() {
            cache(Hints.CACHE, String.class, Hints.Armed.class).maximumWeight(PROJECTS_MAX);
          }
        });
    bind(RefdbAdmin.class);
    bind(Hints.class);
    DynamicSet.bind(binder(), CacheRemovalListener.class).to(Hints.class);
    listener().to(Hints.class);
    listener().to(Verifier.class);
  }
}
