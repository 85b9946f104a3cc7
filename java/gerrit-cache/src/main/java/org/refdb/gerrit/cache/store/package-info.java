/**
 * Stores the bytes of caches on disk: {@code Store} defines the guarantees, and {@code NativeOpener} implements them
 * with the engine. The package also has the folders and encryption keys of caches. Nothing in it depends on the types
 * of Gerrit that are cached.
 */
package org.refdb.gerrit.cache.store;
