/**
 * Converts caches from the H2 caches of Gerrit and back: {@code Takeover} when refdb opens a cache, and {@code
 * OfflineCaches} while no server is running. Keys and values are copied as bytes.
 */
package org.refdb.gerrit.cache.h2;
