/**
 * The plugin beside the lib module: what administrators ask over SSH and REST, and metrics. Every answer comes from
 * {@link org.refdb.gerrit.refs.RefdbAdmin}, which Gerrit loaded from SITE/lib.
 */
package org.refdb.gerrit.plugin;
