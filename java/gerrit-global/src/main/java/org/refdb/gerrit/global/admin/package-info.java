/** What administrators use: SSH commands, REST endpoints and metrics. */
package org.refdb.gerrit.global.admin;
