/**
 * Gerrit's global ref database on etcd: the plugin's modules, and what Gerrit and refdb's lib module call.
 * Dependencies between the packages point only downwards in this list:
 *
 * <ul>
 *   <li>this package: what Gerrit loads by name, and the two interfaces
 *   <li>{@code admin}: SSH commands, REST endpoints and metrics
 *   <li>{@code watch}: learns of the updates of other nodes
 *   <li>{@code disk}: compares the refs on this node's disk with those in etcd
 *   <li>{@code transaction}: updates, locks and batches, none of whose outcomes is ever guessed when a response is lost
 *   <li>{@code etcd}: the client and the layout of its keys
 * </ul>
 *
 * <p>docs/decisions/0090 gives the reasons, and the model in crates/testkit/tests/global_refs.rs explores the protocol.
 */
package org.refdb.gerrit.global;
