/**
 * The plugin beside the lib module: operations for administrators, one class each with an SSH and a REST adapter, and
 * metrics. All answers come from {@link org.refdb.gerrit.refs.RefdbAdmin}, which Gerrit loaded from SITE/lib.
 */
package org.refdb.gerrit.plugin;
