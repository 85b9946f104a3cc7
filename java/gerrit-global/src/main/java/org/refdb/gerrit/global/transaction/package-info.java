/**
 * Transactions in etcd: single updates, locks, and the batches of native mode. Each of these closes a mark of its
 * node, so that its outcome can be determined even if the response is lost.
 */
package org.refdb.gerrit.global.transaction;
