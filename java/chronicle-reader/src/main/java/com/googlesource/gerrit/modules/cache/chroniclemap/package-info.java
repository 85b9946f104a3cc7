/**
 * The classes that the files of cache-chroniclemap need: the header of each file names four of them. They are refdb's
 * own, written after the layout of the module's last version under the Apache licence. They contain bytes where the
 * classes of the module contain objects, and are never on the class path of a Gerrit.
 */
package com.googlesource.gerrit.modules.cache.chroniclemap;
