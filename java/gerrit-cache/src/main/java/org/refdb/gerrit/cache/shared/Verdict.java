package org.refdb.gerrit.cache.shared;

/** Whether a cache may be shared by the Gerrits of a site. */
public enum Verdict {
  /** A key of the cache determines its value for ever, so the cache is shared unless a setting forbids it. */
  SHARE,
  /** The value also depends on repositories' settings, so the cache is shared only if the administrator says so. */
  IF_NAMED,
  /** Like {@link #IF_NAMED}, and because Java deserialises its values, these must be authenticated. */
  IF_NAMED_AND_SEALED,
  /** The value may become wrong or is nobody else's business, so the cache is never shared. */
  NEVER,
  /** Nothing is known of the cache, as of those of plugins: it is shared only if the administrator says so. */
  UNKNOWN
}
