/**
 * The tier that the Gerrits of a fleet share: bytes on a server that speaks the protocol of Redis. For a request no
 * failure of this tier is more than a miss. In this package each of these Gerrits is a node, and the server is the one
 * that stores the bytes.
 */
package org.refdb.gerrit.cache.shared;
