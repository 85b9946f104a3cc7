/** The signatures of Gerrit's global-refdb module that refdb implements or throws. Gerrit's own classes are used at run time. */
package com.gerritforge.gerrit.globalrefdb;
