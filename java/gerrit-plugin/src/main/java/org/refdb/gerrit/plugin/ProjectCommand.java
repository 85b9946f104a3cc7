package org.refdb.gerrit.plugin;

import com.google.gerrit.entities.Project;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.sshd.SshCommand;
import com.google.inject.Inject;
import java.io.IOException;
import org.kohsuke.args4j.Argument;

/** SSH adapter of an operation on one project, which the caller must be allowed to see. */
abstract class ProjectCommand extends SshCommand {
  @Inject private Visible visible;

  @Argument(index = 0, required = true, metaVar = "PROJECT", usage = "the project's name")
  private String name;

  abstract void execute(Project.NameKey project) throws UnloggedFailure, IOException, RestApiException;

  @Override
  protected final void run() throws UnloggedFailure {
    Project.NameKey project = Project.nameKey(name);
    if (!visible.has(project)) {
      throw die("there is no project " + name);
    }
    try {
      execute(project);
    } catch (IOException | RestApiException e) {
      throw die(ErrorText.of(e));
    }
  }
}
