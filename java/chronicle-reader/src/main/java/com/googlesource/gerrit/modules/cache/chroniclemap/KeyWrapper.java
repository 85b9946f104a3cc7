package com.googlesource.gerrit.modules.cache.chroniclemap;

/**
 * A key of a cache.
 *
 * @param bytes the key in the form of the cache's key serializer
 */
public record KeyWrapper(byte[] bytes) {}
