/**
 * Persistent caches of Gerrit in refdb's key-value store.
 *
 * <p>Read {@code RefdbCacheModule} (what Gerrit installs) and {@code RefdbCacheFactory} (which creates a cache) first,
 * and then {@code DiskCache} (the two tiers) and {@code DiskTier} (serialisation). {@code ChangeClock} and {@code
 * Holder} explain why an invalidated value never comes back, and {@code Stores} explains which caches share files. The
 * subpackages are {@code store} (bytes on disk), {@code shared} (the tier that several servers share), {@code h2}
 * (conversion from H2 and back) and {@code chronicle} (import from cache-chroniclemap).
 */
package org.refdb.gerrit.cache;
