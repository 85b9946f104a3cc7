package org.refdb.gerrit.refs;

import com.google.gerrit.server.config.RepositoryConfig;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.inject.AbstractModule;
import com.google.inject.Inject;
import com.google.inject.name.Names;

/**
 * Provides refdb's repositories to a module that itself wraps Gerrit's repository manager, as multi-site and
 * global-refdb do: they use the binding named {@value #NAME}. In gerrit.config: {@code gerrit.installDbModule =
 * org.refdb.gerrit.refs.RefdbNamedDbModule} beside the line of the other module.
 */
public final class RefdbNamedDbModule extends AbstractModule {
  /** The name of the binding that global-refdb uses. */
  public static final String NAME = "LocalDiskRepositoryManager";

  private final RepositoryConfig repositories;

  @Inject
  RefdbNamedDbModule(RepositoryConfig repositories) {
    this.repositories = repositories;
  }

  @Override
  protected void configure() {
    install(new DiskModule(repositories));
    bind(RefdbRepositoryManager.class);
    bind(GitRepositoryManager.class).annotatedWith(Names.named(NAME)).to(RefdbRepositoryManager.class);
  }
}
