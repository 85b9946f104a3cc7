/** Operations on persistent caches: one class each, with an SSH and a REST adapter. */
package org.refdb.gerrit.plugin.cache;
