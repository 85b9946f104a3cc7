package org.refdb.gerrit.refs;

import com.google.common.cache.Cache;
import com.google.gerrit.extensions.annotations.Exports;
import com.google.gerrit.extensions.registration.DynamicSet;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.git.ReceivePackInitializer;
import com.google.gerrit.server.git.UploadPackInitializer;
import com.google.inject.TypeLiteral;

/**
 * Runs the background tasks and listeners: {@code gerrit.installModule = org.refdb.gerrit.refs.RefdbModule}, together
 * with {@link RefdbDbModule} or {@link RefdbNamedDbModule}.
 */
public final class RefdbModule extends LifecycleModule {
  @Override
  protected void configure() {
    bind(RefdbAdmin.class);
    bind(Hints.class);
    bind(new TypeLiteral<Cache<?, ?>>() {}).annotatedWith(Exports.named(Hints.CACHE)).to(Hints.class);
    DynamicSet.bind(binder(), ReceivePackInitializer.class).to(PushRefs.class);
    if (!GerritSets.declares(UploadPackInitializer.class)) {
      DynamicSet.setOf(binder(), UploadPackInitializer.class);
    }
    DynamicSet.bind(binder(), UploadPackInitializer.class).to(WantedRefs.class);
    listener().to(StartNote.class);
    listener().to(Hints.class);
    listener().to(Verifier.class);
  }
}
