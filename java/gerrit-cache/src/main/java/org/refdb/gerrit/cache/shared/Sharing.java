package org.refdb.gerrit.cache.shared;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.common.Version;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.cache.serialize.JavaCacheSerializer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.eclipse.jgit.lib.Config;

/** Decides which caches of a site are shared, and what must be equal on two servers that share one. */
final class Sharing {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  /** The sections of gerrit.config from which the loaders of diffs take settings. */
  private static final List<String> DIFF_SECTIONS = List.of("core", "diff", "change", "merge");

  private final Config config;
  private final Path site;
  private final boolean isSealed;

  /** The caches of which the log has the decision. */
  private final Set<String> told = ConcurrentHashMap.newKeySet();

  Sharing(Config config, Path site, SharedSettings settings) {
    this.config = config;
    this.site = site;
    this.isSealed = settings.isEncrypted();
  }

  /** Returns whether a cache is shared. If the administrator asks for what cannot be, the log says why. */
  boolean allows(PersistentCacheDef<?, ?> def) {
    Verdict verdict = Verdicts.of(def);
    boolean isNamed = config.getBoolean("cache", def.configKey(), "shared", false);
    boolean isRefused = !config.getBoolean("cache", def.configKey(), "shared", true);
    String obstacle = obstacle(def, verdict);
    boolean isWanted = !isRefused && (isNamed || verdict == Verdict.SHARE);
    if (told.add(def.name())) {
      if (isWanted && obstacle != null) {
        logger.atWarning().log("Cache %s is not shared: %s", def.name(), obstacle);
      } else {
        logger.atInfo().log("Cache %s is %s (%s)", def.name(), isWanted ? "shared" : "not shared", verdict);
      }
    }
    return isWanted && obstacle == null;
  }

  /** Returns why a cache cannot be shared, even if the administrator names it; else null. */
  private String obstacle(PersistentCacheDef<?, ?> def, Verdict verdict) {
    if (verdict == Verdict.NEVER) {
      return "its values are secret, or wrong for other servers or at other times";
    }
    if (def.name().equals("change_notes") && config.getStringList("gerrit", null, "importedServerId").length > 0) {
      return "with gerrit.importedServerId its values depend on external ids";
    }
    boolean isJava = isJava(def.keySerializer()) || isJava(def.valueSerializer());
    if (isJava && verdict != Verdict.IF_NAMED_AND_SEALED) {
      return "Java deserialises it, and it is not known which classes it needs";
    }
    if (isJava && !isSealed) {
      return "Java deserialises it, so that cache.refdbSharedKey is needed";
    }
    return null;
  }

  static boolean isJava(CacheSerializer<?> serializer) {
    return serializer instanceof JavaCacheSerializer;
  }

  /** Returns what must be equal on two servers so that they find each other's values of a cache. */
  List<String> context(PersistentCacheDef<?, ?> def) {
    List<String> context = new ArrayList<>();
    context.add("format " + EntryFormat.VERSION);
    context.add("version " + def.version());
    context.add(def.keyType() + " " + def.keySerializer().getClass().getName());
    context.add(def.valueType() + " " + def.valueSerializer().getClass().getName());
    context.add("Gerrit " + Version.getVersion());
    context.add("server " + config.getString("gerrit", null, "serverId"));
    if (Verdicts.of(def) != Verdict.SHARE) {
      context.add("settings " + fingerprint());
    }
    return context;
  }

  /** Returns a hash of the settings of the site that values depend on beside their keys. */
  private String fingerprint() {
    MessageDigest digest = EntryKeys.sha256();
    for (String section : DIFF_SECTIONS) {
      update(digest, section, null);
      config.getSubsections(section).forEach(subsection -> update(digest, section, subsection));
    }
    try {
      digest.update(Files.readAllBytes(site.resolve("etc").resolve("jgit.config")));
    } catch (IOException e) {
      // Most sites have no jgit.config.
    }
    return HexFormat.of().formatHex(digest.digest());
  }

  /** Adds all values of the settings in a section, or in one of its subsections. */
  private void update(MessageDigest digest, String section, String subsection) {
    String prefix = subsection == null ? section : section + "." + subsection;
    for (String name : config.getNames(section, subsection)) {
      for (String value : config.getStringList(section, subsection, name)) {
        digest.update((prefix + "." + name + "=" + value + "\n").getBytes(UTF_8));
      }
    }
  }
}
