package com.googlesource.gerrit.modules.cache.chroniclemap;

/**
 * A key.
 *
 * @param bytes as the cache's key serializer made them
 */
public record KeyWrapper(byte[] bytes) {}
