/**
 * The tier that the Gerrits of a fleet share: bytes on a server that speaks the protocol of Redis. It knows keys and
 * values as bytes only, and no failure of it is more than a miss.
 */
package org.refdb.gerrit.cache.shared;
