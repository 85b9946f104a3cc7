/** Watches etcd for updates by other nodes, and tracks which refs this node's disk does not have yet. */
package org.refdb.gerrit.global.watch;
