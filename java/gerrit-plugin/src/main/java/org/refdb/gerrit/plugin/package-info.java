/**
 * The plugin beside the lib module: operations for administrators, one class each with an SSH and a REST adapter, and
 * metrics. Answers about refs come from {@link org.refdb.gerrit.refs.RefdbAdmin}, which Gerrit loaded from SITE/lib.
 * The subpackage {@code cache} has the operations on persistent caches.
 */
package org.refdb.gerrit.plugin;
