/**
 * Transactions in etcd: single updates, locks, and the batches of native mode. Each transaction closes a mark of its node,
 * so that the outcome can be determined even if the answer is lost.
 */
package org.refdb.gerrit.global.transaction;
