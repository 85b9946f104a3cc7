package org.refdb.gerrit.refs;

import com.google.gerrit.server.config.RepositoryConfig;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.gerrit.server.git.MultiBaseLocalDiskRepositoryManager;
import com.google.inject.AbstractModule;

/** Binds Gerrit's own repository manager for local disks, of the kind that Gerrit itself would choose. */
final class DiskModule extends AbstractModule {
  private final RepositoryConfig repositories;

  DiskModule(RepositoryConfig repositories) {
    this.repositories = repositories;
  }

  @Override
  protected void configure() {
    bind(LocalDiskRepositoryManager.class)
        .annotatedWith(Disk.class)
        .to(
            repositories.getAllBasePaths().isEmpty()
                ? LocalDiskRepositoryManager.class
                : MultiBaseLocalDiskRepositoryManager.class);
  }
}
