/**
 * The refs on this node's disk beside those in etcd: comparing, importing and repairing them, and reverting in etcd
 * what was rolled back on disk.
 */
package org.refdb.gerrit.global.disk;
