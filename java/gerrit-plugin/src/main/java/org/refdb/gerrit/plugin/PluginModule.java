package org.refdb.gerrit.plugin;

import static com.google.gerrit.server.config.ConfigResource.CONFIG_KIND;
import static com.google.gerrit.server.project.ProjectResource.PROJECT_KIND;

import com.google.gerrit.extensions.restapi.RestApiModule;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.inject.Inject;
import com.google.inject.Injector;
import com.google.inject.Key;
import org.refdb.gerrit.plugin.cache.CacheEndpointsModule;

/**
 * Binds REST endpoints and metrics, and checks that the plugin fits the lib module.
 *
 * <p>No field or method has a type of the lib module, because a server that is running while refdb is installed loads
 * this plugin at once, and a linkage error of this class would end the thread that scans for plugins.
 */
public final class PluginModule extends LifecycleModule {
  private static final String OF_THE_LIB_MODULE = "org.refdb.gerrit.refs.RefdbAdmin";

  /** Whether refdb serves refs; false if it has the caches only. */
  private final boolean hasRefs;

  @Inject
  PluginModule(Injector injector) {
    try {
      Class<?> admin = Class.forName(OF_THE_LIB_MODULE, false, PluginModule.class.getClassLoader());
      hasRefs = injector.getExistingBinding(Key.get(admin)) != null;
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException(
          "the refdb plugin needs lib/refdb-gerrit.jar, which this server did not load at its start: restart Gerrit",
          e);
    }
  }

  @Override
  protected void configure() {
    listener().to(VersionCheck.class);
    listener().to(HealthMetrics.class);
    install(
        new RestApiModule() {
          @Override
          protected void configure() {
            get(CONFIG_KIND, "status").to(ShowStatus.Endpoint.class);
          }
        });
    install(new CacheEndpointsModule());
    if (hasRefs) {
      configureRefs();
    }
  }

  private void configureRefs() {
    listener().to(Metrics.class);
    install(
        new RestApiModule() {
          @Override
          protected void configure() {
            get(CONFIG_KIND, "stat").to(ShowStat.AllEndpoint.class);
            get(PROJECT_KIND, "stat").to(ShowStat.Endpoint.class);
            post(PROJECT_KIND, "verify").to(VerifyRefs.Endpoint.class);
            post(PROJECT_KIND, "flush").to(FlushRefs.Endpoint.class);
            post(PROJECT_KIND, "warm").to(WarmRefs.Endpoint.class);
            post(PROJECT_KIND, "delete-broken").to(DeleteBrokenRef.Endpoint.class);
            put(PROJECT_KIND, "shadow").to(ShadowMode.Endpoint.class);
          }
        });
  }
}
