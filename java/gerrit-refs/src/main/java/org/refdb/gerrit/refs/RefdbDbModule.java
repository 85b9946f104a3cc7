package org.refdb.gerrit.refs;

import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.RepositoryConfig;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.git.GitRepositoryManagerModule;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.inject.Inject;
import org.eclipse.jgit.lib.Config;

/**
 * Takes the place of Gerrit's repository manager: {@code gerrit.installDbModule = org.refdb.gerrit.refs.RefdbDbModule}. It
 * needs {@link RefdbModule} beside it, as {@code gerrit.installModule}.
 */
@ModuleImpl(name = GitRepositoryManagerModule.MANAGER_MODULE)
public final class RefdbDbModule extends LifecycleModule {
  private final RepositoryConfig repositories;

  @Inject
  RefdbDbModule(RepositoryConfig repositories, @GerritServerConfig Config config) {
    // Not in configure(): Gerrit makes every module that is named, but configures only the one that it takes.
    ModuleClaims.checkOnly(RefdbDbModule.class, config);
    this.repositories = repositories;
  }

  @Override
  protected void configure() {
    install(new DiskModule(repositories));
    bind(RefdbRepositoryManager.class);
    bind(GitRepositoryManager.class).to(RefdbRepositoryManager.class);
    // What Gerrit's own module does for JGit's caches.
    listener().to(LocalDiskRepositoryManager.Lifecycle.class);
  }
}
