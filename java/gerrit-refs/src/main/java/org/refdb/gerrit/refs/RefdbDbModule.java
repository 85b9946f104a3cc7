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
 * Replaces Gerrit's repository manager: {@code gerrit.installDbModule = org.refdb.gerrit.refs.RefdbDbModule}. It needs
 * {@link RefdbModule} as well, as {@code gerrit.installModule}.
 */
@ModuleImpl(name = GitRepositoryManagerModule.MANAGER_MODULE)
public final class RefdbDbModule extends LifecycleModule {
  private final RepositoryConfig repositories;

  @Inject
  RefdbDbModule(RepositoryConfig repositories, @GerritServerConfig Config config) {
    // The check is not in configure(), because Gerrit instantiates every module that is named but configures only the
    // one that it uses.
    ModuleClaims.checkOnly(RefdbDbModule.class, config);
    this.repositories = repositories;
  }

  @Override
  protected void configure() {
    install(new DiskModule(repositories));
    bind(RefdbRepositoryManager.class);
    bind(GitRepositoryManager.class).to(RefdbRepositoryManager.class);
    // Gerrit's own module does the same for JGit's caches.
    listener().to(LocalDiskRepositoryManager.Lifecycle.class);
  }
}
