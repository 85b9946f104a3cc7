package org.refdb.gerrit.cache.shared;

import com.google.common.flogger.FluentLogger;
import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.cache.serialize.CacheSerializer;
import com.google.gerrit.server.cache.serialize.JavaCacheSerializer;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.eclipse.jgit.lib.Config;

/** Decides which caches of a site are shared. */
final class Sharing {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();

  private final Config config;
  private final boolean isSealed;

  /** The caches of which the log has the decision. */
  private final Set<String> told = ConcurrentHashMap.newKeySet();

  Sharing(Config config, SharedSettings settings) {
    this.config = config;
    this.isSealed = settings.isEncrypted();
  }

  /** Returns whether a cache is shared. If it should be, by default or by setting, and cannot be, the log says why. */
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
}
