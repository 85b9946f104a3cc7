package com.googlesource.gerrit.modules.cache.chroniclemap;

/**
 * A value.
 *
 * @param bytes as the cache's value serializer made them
 * @param createdMillis when it was made, in milliseconds since 1970
 */
public record TimedValue(byte[] bytes, long createdMillis) {}
