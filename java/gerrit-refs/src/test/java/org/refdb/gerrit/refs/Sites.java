package org.refdb.gerrit.refs;

import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.RepositoryConfig;
import com.google.gerrit.server.config.SitePath;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.inject.AbstractModule;
import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.Module;
import com.google.inject.util.Modules;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.eclipse.jgit.lib.Config;

/** As much of a Gerrit site as its repository manager needs. */
final class Sites {
  private Sites() {}

  /** Gerrit's own manager. */
  static LocalDiskRepositoryManager disk(Path site) throws IOException {
    return injector(site, config(), Modules.EMPTY_MODULE).getInstance(LocalDiskRepositoryManager.class);
  }

  /** refdb's, as Gerrit would have it from the lib module. */
  static RefdbRepositoryManager manager(Path site, Config config) throws IOException {
    Injector base = injector(site, config, Modules.EMPTY_MODULE);
    Injector db = base.createChildInjector(base.getInstance(RefdbDbModule.class));
    return (RefdbRepositoryManager) db.getInstance(GitRepositoryManager.class);
  }

  static Config config() {
    Config config = new Config();
    config.setString("gerrit", null, "basePath", "git");
    return config;
  }

  static Injector injector(Path site, Config config, Module more) throws IOException {
    Files.createDirectories(site.resolve("git"));
    return Guice.createInjector(
        more,
        new AbstractModule() {
          @Override
          protected void configure() {
            bind(Path.class).annotatedWith(SitePath.class).toInstance(site);
            bind(Config.class).annotatedWith(GerritServerConfig.class).toInstance(config);
            bind(RepositoryConfig.class);
          }
        });
  }
}
