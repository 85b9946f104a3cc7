package org.refdb.gerrit.global.admin;

import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.io.IOException;
import org.refdb.gerrit.global.disk.SiteProjects;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/** SSH adapter of an operation: a failure of the operation ends the command with its message. */
abstract class AdminCommand extends SshCommand {
  @Inject private SiteProjects site;

  abstract void execute() throws UnloggedFailure, IOException, GlobalRefException, RestApiException;

  @Override
  protected final void run() throws UnloggedFailure {
    try {
      execute();
    } catch (IOException | GlobalRefException | RestApiException e) {
      throw die(e.getMessage());
    }
  }

  /** Fails unless the project exists and is visible to the caller, who cannot tell the two cases apart. */
  final void checkVisible(String project) throws UnloggedFailure {
    if (!site.hasVisible(project)) {
      throw die("there is no project " + project);
    }
  }
}
