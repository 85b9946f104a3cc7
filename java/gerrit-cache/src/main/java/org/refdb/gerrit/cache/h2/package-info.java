/**
 * The way from Gerrit's H2 caches and back: {@code Takeover} while a server runs, {@code OfflineCaches} while none does.
 * Keys and values go over as bytes.
 */
package org.refdb.gerrit.cache.h2;
