package org.refdb.gerrit.install;

/** refdb's lib modules and the settings in the section {@code [gerrit]} of gerrit.config that name them. */
enum GerritModule {
  /** Serves refs in place of Gerrit's repository manager. */
  REFS("installDbModule", "org.refdb.gerrit.refs.RefdbDbModule"),
  /** Serves refs below a module that wraps Gerrit's repositories. */
  NAMED_REFS("installDbModule", "org.refdb.gerrit.refs.RefdbNamedDbModule"),
  /** The background tasks and listeners for refs in the running server. */
  REFS_IN_SERVER("installModule", "org.refdb.gerrit.refs.RefdbModule"),
  /** The persistent caches of the running server. */
  CACHES("installModule", "org.refdb.gerrit.cache.RefdbCacheModule"),
  /** The persistent caches of offline programs. */
  CACHES_OFFLINE("installBatchModule", "org.refdb.gerrit.cache.RefdbBatchCacheModule");

  private final String key;
  private final String className;

  GerritModule(String key, String className) {
    this.key = key;
    this.className = className;
  }

  /** Returns whether gerrit.config names this module. */
  boolean isIn(ConfigFile config) {
    return config.values("gerrit", key).contains(className);
  }

  String key() {
    return key;
  }

  String className() {
    return className;
  }
}
