package org.refdb.gerrit.global;

import com.gerritforge.gerrit.globalrefdb.GlobalRefDatabase;
import com.google.gerrit.extensions.registration.DynamicItem;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.inject.Scopes;
import org.refdb.gerrit.global.disk.RolledBackRefs;

/** Binds the interface that the high-availability and multi-site plugins use. */
final class InterfaceModule extends LifecycleModule {
  @Override
  protected void configure() {
    DynamicItem.bind(binder(), GlobalRefDatabase.class).to(EtcdRefDatabase.class).in(Scopes.SINGLETON);
    listener().to(RolledBackRefs.class);
  }
}
