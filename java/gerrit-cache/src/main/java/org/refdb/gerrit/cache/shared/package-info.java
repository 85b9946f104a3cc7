/**
 * The tier that the Gerrits of a fleet share: bytes on a server that speaks the protocol of Redis. It stores
 * keys and values as bytes, and for a request no failure of it is more than a miss.
 */
package org.refdb.gerrit.cache.shared;
