package com.googlesource.gerrit.modules.cache.chroniclemap;

/** A class that a header names and that the reading process does not have. */
public enum OneSerializer {
  /** The only instance, as Gerrit's serializers have one. */
  INSTANCE
}
