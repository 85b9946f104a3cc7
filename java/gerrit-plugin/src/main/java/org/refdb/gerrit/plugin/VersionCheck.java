package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.inject.Inject;
import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;
import org.refdb.gerrit.refs.RefdbAdmin;

/** Prevents this plugin from starting beside a lib module of another version. */
final class VersionCheck implements LifecycleListener {
  @Inject
  VersionCheck() throws IOException {
    // The constructor checks, so that nothing of this plugin can be used with a lib module of another version.
    RefdbAdmin.checkPlugin(version());
  }

  private static String version() throws IOException {
    Properties properties = new Properties();
    try (InputStream stream = VersionCheck.class.getResourceAsStream("plugin.properties")) {
      properties.load(stream);
    }
    return properties.getProperty("version");
  }

  @Override
  public void start() {}

  @Override
  public void stop() {}
}
