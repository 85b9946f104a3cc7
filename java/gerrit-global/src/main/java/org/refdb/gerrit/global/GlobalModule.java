package org.refdb.gerrit.global;

import static com.google.gerrit.server.config.ConfigResource.CONFIG_KIND;
import static com.google.gerrit.server.project.ProjectResource.PROJECT_KIND;

import com.google.gerrit.extensions.annotations.PluginData;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.extensions.restapi.RestApiModule;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.config.GerritServerConfig;
import com.google.gerrit.server.config.SitePaths;
import com.google.inject.Inject;
import com.google.inject.Provides;
import com.google.inject.Singleton;
import java.io.IOException;
import java.nio.file.Path;
import org.eclipse.jgit.lib.Config;
import org.refdb.gerrit.global.admin.CompareRefs;
import org.refdb.gerrit.global.admin.ImportRefs;
import org.refdb.gerrit.global.admin.Metrics;
import org.refdb.gerrit.global.admin.RepairRefs;
import org.refdb.gerrit.global.admin.ShowStatus;
import org.refdb.gerrit.global.etcd.NodeName;
import org.refdb.gerrit.global.etcd.Settings;
import org.refdb.gerrit.global.transaction.GlobalRefs;
import org.refdb.gerrit.global.watch.WatchService;

/**
 * Module of the plugin refdb-global: binds the global ref database, which the high-availability and multi-site
 * plugins use, if Gerrit's module with its interface is installed.
 */
public final class GlobalModule extends LifecycleModule {
  @Override
  protected void configure() {
    // Listeners stop in reverse order, so the client is closed last.
    listener().to(Closing.class);
    if (hasInterface()) {
      install(new InterfaceModule());
    }
    listener().to(WatchService.class);
    listener().to(Metrics.class);
    install(
        new RestApiModule() {
          @Override
          protected void configure() {
            get(CONFIG_KIND, "status").to(ShowStatus.Endpoint.class);
            post(PROJECT_KIND, "import").to(ImportRefs.Endpoint.class);
            post(PROJECT_KIND, "compare").to(CompareRefs.Endpoint.class);
            post(PROJECT_KIND, "repair").to(RepairRefs.Endpoint.class);
          }
        });
  }

  /** Returns whether Gerrit's module with the interface is installed; native mode does not need it. */
  private static boolean hasInterface() {
    try {
      Class.forName("com.gerritforge.gerrit.globalrefdb.GlobalRefDatabase", false, GlobalModule.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }

  @Provides
  @Singleton
  GlobalRefs globalRefs(@GerritServerConfig Config config, SitePaths site, @PluginData Path data) throws IOException {
    return new GlobalRefs(Settings.of(config, site.site_path), NodeName.in(data));
  }

  private static final class Closing implements LifecycleListener {
    private final GlobalRefs refs;

    @Inject
    Closing(GlobalRefs refs) {
      this.refs = refs;
    }

    @Override
    public void start() {}

    @Override
    public void stop() {
      refs.close();
    }
  }
}
