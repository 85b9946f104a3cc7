package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.refdb.gerrit.cache.h2.OfflineCaches;
import org.refdb.gerrit.cache.store.EncryptionKeys;

/** Reads the settings of the persistent caches from gerrit.config and secure.config. */
final class CacheSettings implements OfflineCaches.SettingsOf {
  private static final String SECTION = "cache";
  private static final Pattern SIZE = Pattern.compile("(-?\\d{1,15})\\s*([kmg]?)", Pattern.CASE_INSENSITIVE);

  private final Path site;
  private final ConfigFile config;
  private final ConfigFile secure;

  private CacheSettings(Path site, ConfigFile config, ConfigFile secure) {
    this.site = site;
    this.config = config;
    this.secure = secure;
  }

  static CacheSettings of(Site site) throws IOException, InstallException {
    ConfigFile config = ConfigFile.read(site.config());
    if (!config.values("gerrit", "secureStoreClass").isEmpty()) {
      throw new InstallException(
          "this site keeps its secrets in " + config.values("gerrit", "secureStoreClass").getLast()
              + ", which only Gerrit can ask: start Gerrit with refdb, which imports by itself");
    }
    Path secure = site.secureConfig();
    return new CacheSettings(site.folder(), config, Files.exists(secure) ? ConfigFile.read(secure) : null);
  }

  /**
   * The folder of the caches.
   *
   * @throws InstallException if none is configured, or it does not exist
   */
  Path directory() throws InstallException {
    List<String> names = config.values(SECTION, "directory");
    if (names.isEmpty()) {
      throw new InstallException("gerrit.config has no cache.directory: all caches are in memory");
    }
    Path directory = site.resolve(names.getLast());
    if (!Files.isDirectory(directory)) {
      throw new InstallException("there is no folder " + directory + ", which is cache.directory in gerrit.config");
    }
    return directory;
  }

  @Override
  public OfflineCaches.Settings of(String cache) {
    List<String> keys = secret(cache, "encryptionKey");
    EncryptionKeys encryption =
        EncryptionKeys.of(cache, keys.isEmpty() ? null : keys.getLast(), secret(cache, "oldEncryptionKey"));
    List<String> limits = config.values(SECTION, cache, "diskLimit");
    return new OfflineCaches.Settings(limits.isEmpty() ? null : bytes(cache, limits.getLast()), encryption);
  }

  /** Reads a setting, from secure.config first, as Gerrit does. */
  private List<String> secret(String cache, String name) {
    List<String> values = secure == null ? List.of() : secure.values(SECTION, cache, name);
    return values.isEmpty() ? config.values(SECTION, cache, name) : values;
  }

  private static Long bytes(String cache, String text) {
    Matcher size = SIZE.matcher(text.strip());
    String fault = "cache." + cache + ".diskLimit = " + text + " in gerrit.config is no size";
    if (!size.matches()) {
      throw new IllegalArgumentException(fault);
    }
    int shift = switch (size.group(2).toLowerCase(Locale.ROOT)) {
      case "k" -> 10;
      case "m" -> 20;
      case "g" -> 30;
      default -> 0;
    };
    try {
      return Math.multiplyExact(Long.parseLong(size.group(1)), 1L << shift);
    } catch (ArithmeticException | NumberFormatException e) {
      throw new IllegalArgumentException(fault, e);
    }
  }
}
