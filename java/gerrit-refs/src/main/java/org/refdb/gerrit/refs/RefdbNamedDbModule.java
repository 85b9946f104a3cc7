package org.refdb.gerrit.refs;

import com.google.gerrit.server.config.RepositoryConfig;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.inject.AbstractModule;
import com.google.inject.Inject;
import com.google.inject.name.Names;

/**
 * Lends refdb's repositories to a module that wraps Gerrit's repository manager itself, as multi-site and global-refdb
 * do. Those take the binding with the name {@value #NAME}. In gerrit.config: {@code gerrit.installDbModule =
 * org.refdb.gerrit.refs.RefdbNamedDbModule} beside the other's line.
 */
public final class RefdbNamedDbModule extends AbstractModule {
  /** The name that global-refdb asks for. */
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
