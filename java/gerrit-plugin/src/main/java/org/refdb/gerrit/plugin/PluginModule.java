package org.refdb.gerrit.plugin;

import static com.google.gerrit.server.config.ConfigResource.CONFIG_KIND;
import static com.google.gerrit.server.project.ProjectResource.PROJECT_KIND;

import com.google.gerrit.extensions.restapi.RestApiModule;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.inject.Inject;
import org.refdb.gerrit.refs.RefdbAdmin;

/** REST endpoints and metrics, and the check that plugin and lib module fit. */
public final class PluginModule extends LifecycleModule {
  /** Null where refdb has the caches only. */
  @Inject(optional = true)
  private RefdbAdmin refs;

  @Override
  protected void configure() {
    listener().to(VersionCheck.class);
    listener().to(HealthMetrics.class);
    install(
        new RestApiModule() {
          @Override
          protected void configure() {
            get(CONFIG_KIND, "status").to(Views.ServerStatus.class);
          }
        });
    install(new CacheViewsModule());
    if (refs != null) {
      configureRefs();
    }
  }

  private void configureRefs() {
    listener().to(Metrics.class);
    install(
        new RestApiModule() {
          @Override
          protected void configure() {
            get(CONFIG_KIND, "stat").to(Views.AllStats.class);
            get(PROJECT_KIND, "stat").to(Views.Stat.class);
            post(PROJECT_KIND, "verify").to(Views.Verify.class);
            post(PROJECT_KIND, "flush").to(Views.Flush.class);
            post(PROJECT_KIND, "warm").to(Views.Warm.class);
            post(PROJECT_KIND, "delete-broken").to(Views.DeleteBroken.class);
            put(PROJECT_KIND, "shadow").to(Views.Shadow.class);
          }
        });
  }
}
