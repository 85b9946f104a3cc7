package org.refdb.it;

import com.google.common.cache.Cache;
import com.google.common.flogger.FluentLogger;
import com.google.gerrit.extensions.events.LifecycleListener;
import com.google.gerrit.lifecycle.LifecycleModule;
import com.google.gerrit.server.cache.CacheModule;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import com.google.inject.name.Named;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/** A Gerrit plugin with a persistent cache, in which it counts how often it was started. */
public final class CachedPlugin extends LifecycleModule {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  @Override
  protected void configure() {
    install(new Caches());
    listener().to(Counter.class);
  }

  public static final class Caches extends CacheModule {
    @Override
    protected void configure() {
      persist("starts", String.class, String.class);
    }
  }

  /** Counts the starts of the plugin in the cache. */
  @Singleton
  public static final class Counter implements LifecycleListener {
    private final Cache<String, String> cache;

    @Inject
    Counter(@Named("starts") Cache<String, String> cache) {
      this.cache = cache;
    }

    @Override
    public void start() {
      String before = cache.getIfPresent("starts");
      int starts = before == null ? 1 : Integer.parseInt(before) + 1;
      cache.put("starts", String.valueOf(starts));
      logger.atInfo().log("cached plugin: start %d", starts);
    }

    @Override
    public void stop() {}
  }

  /** Makes the plugin's jar. */
  static void write(Path jar) throws IOException {
    Manifest manifest = new Manifest();
    Attributes attributes = manifest.getMainAttributes();
    attributes.put(Attributes.Name.MANIFEST_VERSION, "1.0");
    attributes.putValue("Gerrit-PluginName", "cached");
    attributes.putValue("Gerrit-ApiType", "plugin");
    attributes.putValue("Gerrit-Module", CachedPlugin.class.getName());
    try (JarOutputStream output = new JarOutputStream(Files.newOutputStream(jar), manifest)) {
      for (Class<?> part : new Class<?>[] {CachedPlugin.class, Caches.class, Counter.class}) {
        String name = part.getName().replace('.', '/') + ".class";
        output.putNextEntry(new JarEntry(name));
        try (InputStream content = part.getClassLoader().getResourceAsStream(name)) {
          content.transferTo(output);
        }
      }
    }
  }
}
