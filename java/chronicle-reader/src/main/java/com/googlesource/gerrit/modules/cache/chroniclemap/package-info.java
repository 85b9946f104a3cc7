/**
 * What the files of cache-chroniclemap name: the header of each has the names of these four classes. They are refdb's
 * own, written after the layout of the module's last version under the Apache licence. They hold bytes where the
 * module's hold objects. They are never on the class path of a Gerrit.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
