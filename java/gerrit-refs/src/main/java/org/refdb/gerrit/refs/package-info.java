/**
 * The lib module: Gerrit's repositories, with refdb's engine as their ref database. In reading order:
 *
 * <ul>
 *   <li>{@link org.refdb.gerrit.refs.RefdbDbModule}: how the module replaces Gerrit's repository manager
 *   <li>{@link org.refdb.gerrit.refs.RefdbRepositoryManager}: how a repository is opened, created and dropped
 *   <li>{@link org.refdb.gerrit.refs.RefdbRepository}: a repository with refdb's ref database
 *   <li>{@link org.refdb.gerrit.refs.RefEngine}: opens the ref database, or reports why it cannot
 *   <li>{@link org.refdb.gerrit.refs.ShadowRefDatabase}: compares refdb's answers with JGit's
 *   <li>{@link org.refdb.gerrit.refs.Hints}: tells other nodes in which projects refs have changed
 *   <li>{@link org.refdb.gerrit.refs.Verifier}: looks for stale refs in the background
 *   <li>{@link org.refdb.gerrit.refs.RefdbAdmin}: operations and figures for administrators
 * </ul>
 */
package org.refdb.gerrit.refs;
