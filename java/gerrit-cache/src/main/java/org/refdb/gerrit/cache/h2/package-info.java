/**
 * Converts caches from the H2 caches of Gerrit and back: {@code Takeover} while a server is running, and {@code
 * OfflineCaches} while none is. Keys and values are copied as bytes.
 */
package org.refdb.gerrit.cache.h2;
