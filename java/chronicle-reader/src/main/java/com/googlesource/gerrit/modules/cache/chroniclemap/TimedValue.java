package com.googlesource.gerrit.modules.cache.chroniclemap;

/**
 * A value of a cache.
 *
 * @param bytes the value in the form of the cache's value serializer
 * @param createdMillis when the value was created, in milliseconds since 1970
 */
public record TimedValue(byte[] bytes, long createdMillis) {}
