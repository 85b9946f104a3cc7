package org.refdb.gerrit.cache.shared;

/** Whether a cache may be shared by the Gerrits of a site. */
public enum Verdict {
  /** Its key determines its value for ever, so it is shared. */
  SHARE,
  /** Its value also depends on configuration of repositories, so it is shared only if the administrator says so. */
  IF_NAMED,
  /** Like {@link #IF_NAMED}, and because Java deserialises its values, these must be authenticated. */
  IF_NAMED_AND_SEALED,
  /** Its value may become wrong or is nobody else's business, so it is never shared. */
  NEVER,
  /** Nothing is known of it, as of the caches of plugins: shared only if the administrator says so. */
  UNKNOWN
}
