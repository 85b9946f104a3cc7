/**
 * Gerrit's persistent caches on refdb's key-value store.
 *
 * <p>Read {@code RefdbCacheModule} (what Gerrit installs) and {@code RefdbCacheFactory} (makes a cache) first. Then come
 * {@code DiskCache} (two tiers) and {@code DiskTier} (objects to bytes). {@code ChangeClock} and {@code Holder} say why an
 * invalidated value never comes back, {@code Stores} who shares which files. Below it are {@code store} (bytes on disk)
 * and {@code h2} (the way from H2 and back).
 */
package org.refdb.gerrit.cache;
