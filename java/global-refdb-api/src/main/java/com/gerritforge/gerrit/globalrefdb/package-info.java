/**
 * The signatures of the types in Gerrit's global-refdb module that refdb implements or throws. At run time Gerrit's own
 * classes are used.
 */
package com.gerritforge.gerrit.globalrefdb;
