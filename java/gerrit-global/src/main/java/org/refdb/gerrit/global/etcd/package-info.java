/** The etcd client, the layout of its keys, and what identifies nodes and projects there. */
package org.refdb.gerrit.global.etcd;
